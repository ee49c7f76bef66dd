/** An error in the format of Stripe's API. */
export class ErrorResponse extends Error {
  override readonly name = "ErrorResponse";
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

/** Returns a 400 of the usual type. */
export const invalid = (message: string, code?: string, param?: string): ErrorResponse =>
  new ErrorResponse(400, message, { ...(code ? { code } : {}), ...(param ? { param } : {}) });

/** Returns the error for an unknown id: a 400 if the id is in the parameters, a 404 if it is in the path. */
export const missing = (what: string, id: string, status: 400 | 404): ErrorResponse =>
  new ErrorResponse(status, `No such ${what}: '${id}'`, { code: "resource_missing" });
