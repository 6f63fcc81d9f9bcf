"""What does measuring a node cost, on the stand-in for NVML and on a real card?"""
