/** Sends a GET, or a POST if there is a body, and returns the text of the response. */
export const send = async (url: string, key: string, body?: unknown): Promise<string> => {
  const response = await fetch(url, {
    headers: { Authorization: key, "Content-Type": "application/json" },
    ...(body === undefined ? {} : { method: "POST", body: JSON.stringify(body) }),
  });
  const text = await response.text();
  if (!response.ok) {
    throw new Error(`${url} returned ${response.status}: ${text}`);
  }
  return text;
};
