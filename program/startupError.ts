/** What a program cannot start without; the message says what to do. */
export class StartupError extends Error {
  override readonly name = "StartupError";
}
