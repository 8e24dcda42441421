/** The cache of responses. Temporary problems are retried after `Retry-After`; other rejections are not. */
import { QueryClient } from '@tanstack/react-query'
import { toProblem } from './problem.ts'

const FRESH_MS = 15_000
const MAX_RETRIES = 5
const MAX_WAIT_MS = 30_000

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: FRESH_MS,
      refetchInterval: FRESH_MS,
      networkMode: 'always',
      retry: (count, error) => toProblem(error).isTemporary && count < MAX_RETRIES,
      retryDelay: (count, error) => {
        const { retryAfterSeconds } = toProblem(error)
        return retryAfterSeconds ? retryAfterSeconds * 1_000 : Math.min(1_000 * 2 ** count, MAX_WAIT_MS)
      },
    },
    mutations: { networkMode: 'always' },
  },
})
