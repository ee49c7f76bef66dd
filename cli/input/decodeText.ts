/** Decodes UTF-8. Invalid bytes become U+FFFD. A byte order mark is dropped. */
export async function* decodeText(
  bytes: AsyncIterable<Buffer>,
): AsyncGenerator<string, void, void> {
  const decoder = new TextDecoder();
  for await (const chunk of bytes) {
    yield decoder.decode(chunk, { stream: true });
  }
  yield decoder.decode();
}
