"""How is a fleet shown in a browser, read-only and live?"""
