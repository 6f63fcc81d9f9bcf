"""What is done every night, and after each merge? Machines are compared with what was applied, and that is published."""
