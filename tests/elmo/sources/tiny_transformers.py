"""Tiny transformers with random weights, saved as the Hugging Face hub has them."""

import torch

WORDS = ["the", "cat", "sat", "on", "mat", "Ada", "play", "un", "able", "chess", "game", "river", "bank", "of", "a"]
TEXT = ["the cat sat on the mat .", "Ada plays chess and games at the river bank", "unbelievable playing of a game"]
SIZES = {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 24}
POSITIONS = 140


def word_pieces(words=WORDS):
    """A tokeniser as BERT's: the longest piece first, pieces inside a word start with ##."""
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    letters = "abcdefghijklmnopqrstuvwxyzA."
    pieces = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *words, *letters, "##s", "##ing", "##able", "##believ"]
    vocabulary = {piece: number for number, piece in enumerate(dict.fromkeys(pieces))}
    tokenizer = Tokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=False)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    marks = [(name, vocabulary[name]) for name in ("[SEP]", "[CLS]")]
    tokenizer.post_processor = processors.BertProcessing(*marks)
    return tokenizer, {"unk_token": "[UNK]", "pad_token": "[PAD]", "cls_token": "[CLS]", "sep_token": "[SEP]"}


def byte_pairs(marked):
    """A tokeniser as GPT-2's, a space being part of a word; `marked` puts <s> and </s> around a text, as RoBERTa's."""
    from tokenizers import Tokenizer, decoders, models, pre_tokenizers, processors, trainers

    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    marks = ["<s>", "<pad>", "</s>"] if marked else ["<|endoftext|>"]
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=len(alphabet) + 60, special_tokens=marks, initial_alphabet=alphabet, show_progress=False
    )
    tokenizer.train_from_iterator(TEXT, trainer)
    if not marked:
        return tokenizer, {"bos_token": marks[0], "unk_token": marks[0]}
    tokenizer.post_processor = processors.RobertaProcessing(("</s>", 2), ("<s>", 0), add_prefix_space=False)
    return tokenizer, {"bos_token": "<s>", "pad_token": "<pad>", "eos_token": "</s>"}


def save_sentence_pieces(folder):
    """Replaces the tokeniser in the folder of a deberta by a SentencePiece file alone, as DeBERTa v3 has it."""
    from sentencepiece import SentencePieceTrainer

    for file in folder.glob("tokenizer*"):
        file.unlink()
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "DebertaV2Tokenizer"}', encoding="utf-8")
    marks = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    numbers = {f"{name}_id": number for number, name in enumerate(marks)}
    pieces = {f"{name}_piece": piece for name, piece in marks.items()}
    with (folder / "spm.model").open("wb") as file:
        SentencePieceTrainer.train(
            sentence_iterator=iter(TEXT), model_writer=file, vocab_size=36, minloglevel=2, **numbers, **pieces
        )
    return folder / "spm.model"


def save(folder, kind, seed=0, **changes):
    """Saves a model of this kind to the folder; returns its path as text."""
    import transformers

    tokenizer, marks = word_pieces() if "bert" in kind and kind != "roberta" else byte_pairs(kind == "roberta")
    size = {"vocab_size": tokenizer.get_vocab_size(), **changes}
    if kind == "distilbert":
        config = transformers.DistilBertConfig(
            dim=16, n_layers=2, n_heads=2, hidden_dim=24, max_position_embeddings=POSITIONS, **size
        )
    elif kind == "gpt2":
        config = transformers.GPT2Config(n_embd=16, n_layer=2, n_head=2, n_positions=POSITIONS, **size)
    elif kind == "roberta":
        config = transformers.RobertaConfig(**SIZES, max_position_embeddings=POSITIONS + 2, pad_token_id=1, **size)
    elif kind == "deberta":
        config = transformers.DebertaV2Config(
            **SIZES, max_position_embeddings=POSITIONS, relative_attention=True, pos_att_type=["p2c", "c2p"], **size
        )
    else:
        config = transformers.BertConfig(**SIZES, max_position_embeddings=POSITIONS, **size)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = transformers.AutoModel.from_config(config)
        for parameter in model.parameters():  # their own start is so small that context hardly shows
            torch.nn.init.normal_(parameter, std=0.3)
    model.save_pretrained(folder)
    transformers.PreTrainedTokenizerFast(tokenizer_object=tokenizer, **marks).save_pretrained(folder)
    return str(folder)
