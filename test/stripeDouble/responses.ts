export type HttpResponse = {
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  readonly body: string;
};

export const jsonResponse = (
  status: number,
  value: unknown,
  headers: Readonly<Record<string, string>> = {},
): HttpResponse => ({
  status,
  headers: { "content-type": "application/json", ...headers },
  body: JSON.stringify(value),
});

/** An error in the format of Stripe's API. */
export class ErrorResponse extends Error {
  override readonly name = "ErrorResponse";
  readonly status: number;
  readonly error: Readonly<Record<string, string>>;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    message: string,
    error: Readonly<Record<string, string>> = {},
    headers: Readonly<Record<string, string>> = {},
  ) {
    super(message);
    this.status = status;
    this.error = { type: "invalid_request_error", ...error };
    this.headers = headers;
  }
}

/** Returns a 400 of the usual type. */
export const invalid = (message: string, code?: string): ErrorResponse =>
  new ErrorResponse(400, message, code ? { code } : {});

/**
 * Returns what has an id.
 * @throws ErrorResponse if nothing has: a 400 if the id is in the parameters, a 404 if it is in the path
 */
export const findBy = <T>(
  map: ReadonlyMap<string, T>,
  what: string,
  id: string,
  status: 400 | 404,
): T => {
  const found = map.get(id);
  if (found === undefined) {
    throw new ErrorResponse(status, `No such ${what}: '${id}'`, { code: "resource_missing" });
  }
  return found;
};

/** Returns one page of a list that is already in Stripe's order, newest first. */
export const pageOf = <T extends { readonly id: string }>(
  url: string,
  all: readonly T[],
  {
    limit = 10,
    starting_after: after,
  }: { readonly limit?: number | undefined; readonly starting_after?: string | undefined } = {},
): { readonly object: "list"; readonly url: string; readonly has_more: boolean; data: T[] } => {
  const from = after === undefined ? 0 : all.findIndex(({ id }) => id === after) + 1;
  if (after !== undefined && from === 0) {
    throw invalid(`No such object: '${after}'`, "resource_missing");
  }
  const to = from + limit;
  return { object: "list", url, has_more: to < all.length, data: all.slice(from, to) };
};
