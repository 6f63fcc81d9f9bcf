"""How is usage recorded, shown, and what did idle reservations keep waiting?"""
