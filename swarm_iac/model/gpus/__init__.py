"""What is known of GPU models?"""
