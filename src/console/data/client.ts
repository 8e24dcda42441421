/**
 * The cache of responses. Temporary problems are retried after `Retry-After`; other rejections are not. Visible data is read again every
 * 15 s, unless the stream of changes announces each of its changes.
 */
import { QueryClient } from '@tanstack/react-query'
import { isLive } from './live.ts'
import { toProblem } from './problem.ts'

const FRESH_MS = 15_000
const MAX_RETRIES = 5
const MAX_WAIT_MS = 30_000

export const client = new QueryClient({
  defaultOptions: {
    queries: {
      staleTime: ({ queryKey }) => (isLive(queryKey) ? Number.POSITIVE_INFINITY : FRESH_MS),
      refetchInterval: ({ queryKey }) => (isLive(queryKey) ? false : FRESH_MS),
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
