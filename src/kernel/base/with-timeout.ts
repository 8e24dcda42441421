/** Waits for a promise for at most `timeoutMs`. `onTimeout` stops the work and returns the error to throw. */
export async function withTimeout<T>(work: Promise<T>, timeoutMs: number, onTimeout: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(onTimeout()), timeoutMs)
  })
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer))
}
