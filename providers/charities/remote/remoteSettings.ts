/** How to reach a remote provider. */
export type RemoteSettings<Credentials> = Credentials & {
  /** Without a slash at its end. */
  readonly apiBase: string;
  /** The limit of one attempt. */
  readonly timeoutMs: number;
};

export type RemoteDependencies = {
  /** Takes a turn of a limit that all processes share; false when it is used up. */
  readonly takeTurn: (
    bucket: string,
    limit: { readonly turns: number; readonly windowMs: number },
  ) => Promise<boolean>;
};
