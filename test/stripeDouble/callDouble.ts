import type { StripeDouble } from "./startStripeDouble.ts";

type Parameters = Readonly<Record<string, string>>;

/** Calls the double as another program would. */
export const callDouble = async (
  { url, secretKey }: StripeDouble,
  method: "GET" | "POST",
  path: string,
  parameters: Parameters = {},
  headers: Parameters = {},
): Promise<{ status: number; headers: Headers; body: Record<string, unknown> }> => {
  const form = new URLSearchParams(parameters);
  const query = method === "GET" ? `?${form.toString()}` : "";
  const response = await fetch(`${url}${path}${query}`, {
    method,
    headers: { authorization: `Bearer ${secretKey}`, ...headers },
    ...(method === "POST" ? { body: form } : {}),
  });
  // oxlint-disable-next-line typescript/no-unsafe-type-assertion -- every response is a JSON object
  const body = (await response.json()) as Record<string, unknown>;
  return { status: response.status, headers: response.headers, body };
};
