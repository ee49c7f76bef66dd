const SET_ROOT_CERTIFICATE = "set sslrootcert to the certificate of the CA that signs the server's";

/** What an operator can do, by Node's code of the error. */
const ADVICE: Readonly<Record<string, string>> = {
  SELF_SIGNED_CERT_IN_CHAIN: SET_ROOT_CERTIFICATE,
  DEPTH_ZERO_SELF_SIGNED_CERT: SET_ROOT_CERTIFICATE,
  UNABLE_TO_GET_ISSUER_CERT_LOCALLY: SET_ROOT_CERTIFICATE,
  UNABLE_TO_VERIFY_LEAF_SIGNATURE: SET_ROOT_CERTIFICATE,
  CERT_HAS_EXPIRED: "renew the server's certificate",
  ERR_TLS_CERT_ALTNAME_INVALID:
    "use a name of the certificate in the URL, or sslmode=verify-ca if the CA signs for your servers only",
};

/** The driver's error has no code. */
const NO_TLS = "The server does not support SSL connections";

/** Adds what an operator can do to an error of TLS, and returns other errors unchanged. */
export const explainTlsError = (error: unknown): unknown => {
  if (!(error instanceof Error)) {
    return error;
  }
  if (error.message === NO_TLS) {
    return new Error(
      "the server does not accept encrypted connections; turn them on there, or set sslmode=disable to send everything in plain text",
      { cause: error },
    );
  }
  const advice = "code" in error ? ADVICE[String(error.code)] : undefined;
  return advice === undefined
    ? error
    : new Error(`${error.message.replace(/\.$/u, "")}; ${advice}`, { cause: error });
};
