"""Which words does the product use? The frozen vocabulary that every layer shares."""
