import type { HttpErrorCode } from "../../runtime/errorStatus.ts";

/** An error of HTTP itself; `message` is for the client. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly code: HttpErrorCode;

  constructor(code: HttpErrorCode, message: string, options?: ErrorOptions) {
    super(message, options);
    this.code = code;
  }
}
