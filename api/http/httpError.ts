/** A refusal that belongs to HTTP itself; `message` is for the client. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;
  /** The interface's own word for it, where the status alone does not say it. */
  readonly code: string | null;

  constructor(
    status: number,
    message: string,
    {
      headers = {},
      code = null,
      ...options
    }: ErrorOptions & {
      readonly headers?: Readonly<Record<string, string>>;
      readonly code?: string | null;
    } = {},
  ) {
    super(message, options);
    this.status = status;
    this.headers = headers;
    this.code = code;
  }
}
