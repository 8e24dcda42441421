/** For what somebody waits for: a server that has gone silent is not waited for longer than for one that is slow. */

const ANSWER_MS = 5_000

/** What is told of a server that does not answer. */
export const silent = (): Error => Object.assign(new Error('the server did not answer in time'), { code: 'ETIMEDOUT' })

/** @param onLate gives up what is waited for */
export async function inTime<T>(answer: Promise<T>, onLate: () => void = () => undefined): Promise<T> {
  let timer: NodeJS.Timeout | undefined
  const late = new Promise<never>((_, reject) => {
    timer = setTimeout(() => {
      onLate()
      reject(silent())
    }, ANSWER_MS)
  })
  return Promise.race([answer, late]).finally(() => clearTimeout(timer))
}
