/**
 * Returns the response with a body that fails after this many bytes. The other side decides how much it sends, and
 * `text()` and `json()` would store all of it.
 */
export const boundBody = (response: Response, maximumBytes: number): Response => {
  if (response.body === null) {
    return response;
  }
  let size = 0;
  const limit = new TransformStream<Uint8Array, Uint8Array>({
    transform: (chunk, controller) => {
      size += chunk.length;
      if (size > maximumBytes) {
        throw new Error(`The response is longer than ${maximumBytes} bytes.`);
      }
      controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(limit), response);
};
