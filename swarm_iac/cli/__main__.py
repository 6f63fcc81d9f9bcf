"""How does the command `swarm` start, and how does it report errors?

While it is loading, before anything has started, Ctrl-C exits silently. So nothing that lies in a file is imported before
`main`: Ctrl-C would show where that import was.
"""

import _signal as signal  # `signal`, without its file


def main() -> None:
    """Run the command line; each of our errors becomes text on stderr and its own exit code."""
    here = _silent()
    import os
    import sys

    from swarm_iac.cli.application import application
    from swarm_iac.cli.terminal import exit_codes, failures, interrupt
    from swarm_iac.errors import SwarmError
    from swarm_iac.printable import printable

    app = application("".join(sys.argv[1:2]))
    collect_rarely()
    failures.Printed.document = False
    try:
        if here:
            signal.signal(signal.SIGINT, interrupt.raised)
        app()
    except SwarmError as error:
        code = exit_codes.code(error.exit_code, sys.argv)
        if failures.as_json(sys.argv):
            from swarm_iac.cli.terminal.screen import show_json

            show_json(failures.document(error, code))
        sys.stdout.flush()
        sys.stderr.write(f"{printable(str(error))}\n")
        interrupt.leave(code)
    except BrokenPipeError:
        # The reader of our output has gone; keep the interpreter from complaining at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        interrupt.leave(0)
    except (KeyboardInterrupt, SystemExit) as end:
        if not interrupt.by_hand(end):
            # An interrupted question may have left its thread running.
            own = end.code if isinstance(end, SystemExit) and isinstance(end.code, int) else 0
            interrupt.leave(own if isinstance(end, exit_codes.Changes) else exit_codes.code(own, sys.argv))
        sys.stderr.write(interrupt.WORD)
        interrupt.leave(interrupt.CODE)


def _silent() -> bool:
    """Ctrl-C ends the process without a word from here on; False in a thread other than the main one, which cannot say so."""
    try:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    except ValueError:
        return False
    return True


def collect_rarely() -> None:
    """Run the garbage collector after 200,000 new objects instead of 700: while a large stack is read it would scan all
    live objects again and again, a third of the time, and none of them is garbage.
    """
    import gc

    gc.freeze()
    gc.set_threshold(200_000, 20, 20)


if __name__ == "__main__":
    main()
