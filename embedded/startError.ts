/** Why something could not be started, in words for the person who started it: what is wrong and what to do. */
export class StartError extends Error {
  override readonly name = "StartError";
}
