/**
 * Repeats work at an interval, one run at a time.
 *
 * @returns a function that stops the repetition and waits for the run in progress
 */
export function repeat(
  work: () => Promise<void>,
  everyMs: number,
  onFailure: (error: unknown) => void,
): () => Promise<void> {
  let run: Promise<void> | undefined
  const timer = setInterval(() => {
    run ??= work()
      .catch(onFailure)
      .finally(() => {
        run = undefined
      })
  }, everyMs).unref()
  return async () => {
    clearInterval(timer)
    await run
  }
}
