"""An exported folder on the Hugging Face Hub, by huggingface_hub."""
