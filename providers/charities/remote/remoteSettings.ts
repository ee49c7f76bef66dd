/** How to reach a remote provider. */
export type RemoteSettings<Credentials> = Credentials & {
  /** Without a slash at its end. */
  readonly apiBase: string;
  /** The limit of one attempt. */
  readonly timeoutMs: number;
};
