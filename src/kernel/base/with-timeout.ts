/** An answer that is waited for no longer than `ms`; `late` gives up what it is waited for, and says what is thrown then. */
export async function inTime<T>(work: Promise<T>, ms: number, late: () => Error): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const deadline = new Promise<never>((_, reject) => {
    timer = setTimeout(() => reject(late()), ms)
  })
  return Promise.race([work, deadline]).finally(() => clearTimeout(timer))
}
