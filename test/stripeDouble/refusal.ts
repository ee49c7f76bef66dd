/** An answer that is no success, in the shape of Stripe's API. */
export class Refusal extends Error {
  override readonly name = "Refusal";
  readonly status: number;
  readonly error: { readonly type: string; readonly code?: string; readonly param?: string };
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    message: string,
    error: { type?: string; code?: string; param?: string } = {},
    headers: Record<string, string> = {},
  ) {
    super(message);
    this.status = status;
    this.error = { type: "invalid_request_error", ...error };
    this.headers = headers;
  }
}

/** A 400 of the usual type. */
export const invalid = (message: string, code?: string, param?: string): Refusal =>
  new Refusal(400, message, { ...(code ? { code } : {}), ...(param ? { param } : {}) });

/** The answer for an id that names nothing; a reference in the parameters gives a 400, one in the path a 404. */
export const missing = (what: string, id: string, status: 400 | 404): Refusal =>
  new Refusal(status, `No such ${what}: '${id}'`, { code: "resource_missing" });
