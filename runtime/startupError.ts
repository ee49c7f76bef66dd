/** Something that a program needs to start is missing; the message says what to do. */
export class StartupError extends Error {
  override readonly name = "StartupError";
}
