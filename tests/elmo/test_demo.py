from elmo import demo


def test_the_demo_says_what_it_is_and_shows_what_comes_out(capsys):
    demo.main()
    shown = capsys.readouterr().out
    assert "UNTRAINED" in shown
    longest = max(len(sentence.split()) for pair in demo.PAIRS.values() for sentence in pair)
    assert f"(3, 4, {longest}, 256)" in shown
    # The layer of characters alone cannot tell two uses of a word apart; the LSTM layers see the sentence.
    rows = [line.split("│") for line in shown.splitlines() if line.startswith("│")]
    assert [row[1].strip() for row in rows] == list(demo.PAIRS)
    assert all(float(row[2]) == 1.0 > float(row[3]) for row in rows)
