"""What attempts print: captured, masked, shipped."""
