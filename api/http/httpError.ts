/** A refusal that belongs to HTTP itself; `message` is for the client. */
export class HttpError extends Error {
  override readonly name = "HttpError";
  readonly status: number;
  readonly headers: Readonly<Record<string, string>>;

  constructor(
    status: number,
    message: string,
    {
      headers = {},
      ...options
    }: ErrorOptions & { headers?: Readonly<Record<string, string>> } = {},
  ) {
    super(message, options);
    this.status = status;
    this.headers = headers;
  }
}
