"""What can be typed? The command `swarm`. Only this package prints or exits."""
