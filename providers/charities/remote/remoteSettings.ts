/** How to reach a remote provider. */
export type RemoteSettings<Credentials> = Credentials & {
  /** Base URL, without a trailing slash. */
  readonly apiBase: string;
  /** The limit of one attempt, in milliseconds. */
  readonly timeoutMs: number;
};
