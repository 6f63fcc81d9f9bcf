"""What runs on a node? Everything that reads or changes a machine: standard library and pynvml only, Python 3.9 up."""
