import type { HttpErrorCode } from "../../runtime/errorStatus.ts";

/** An error of HTTP itself; `message` is for the client. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly code: HttpErrorCode;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    code: HttpErrorCode,
    message: string,
    {
      headers = {},
      ...options
    }: ErrorOptions & { readonly headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(message, options);
    this.code = code;
    this.headers = headers;
  }
}
