"""How are nodes powered on and off? By hooks of the operator, for the autopilot and for `up`."""
