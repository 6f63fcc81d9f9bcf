"""Which texts try to be more than text?"""

HOSTILE = [
    "; rm -rf /",
    '"',
    "\\",
    "\\\n[Service]\nUser=root",
    "a\r\nUser=root",
    "%h %% %n",
    "$HOME ${PATH} $$",
    "+/bin/sh",
    "-x",
    "é \u2028 \x85 😀",
    "#",
    "\t",
    "'",
]

#: What a language of templates, or of data, might take for its own.
TEMPLATES = [
    "{{ 7 * 7 }}",
    "{% raw %}",
    "{# gone #}",
    "{{ lookup('ansible.builtin.pipe', 'touch PWNED') }}",
    "!unsafe x",
    "!vault |",
    "@{x}",
    "- a: b",
    "yes",
    "0o17",
]
