/**
 * Hooks for operations: `useOperation` and `useList` read, `useAction` changes.
 *
 * - A query key is `[name, input]`. Equal calls of several components are one request.
 * - After an action, every mounted query is read again.
 */
import { keepPreviousData, useInfiniteQuery, useIsFetching, useMutation, useQuery } from '@tanstack/react-query'
import { useRef } from 'react'
import type { Input, OperationName, Query, Result } from '../api/contract.ts'
import { call, callForResponse, newKey, resultOf } from './call.ts'
import { client } from './client.ts'
import { keepETag } from './etags.ts'
import { notify } from './notices.ts'
import { type Problem, toProblem } from './problem.ts'
import { isPermitted } from './session.ts'

interface ReadOptions<Data = any> {
  /** False: the operation is not called. */
  readonly enabled?: boolean
  /** Reads again after this time in ms, such as while a job runs. Default: 15 s. */
  readonly refetchInterval?:
    | number
    | false
    | ((query: { readonly state: { readonly data: Data | undefined } }) => number | false)
}

/** The state of a read. */
export interface Read<Data> {
  /** Undefined before the first response. */
  readonly data: Data | undefined
  readonly error: Problem | null
  readonly isFetching: boolean
  /** Whether the data belongs to the input before this one. */
  readonly isPlaceholderData: boolean
  readonly refetch: () => Promise<{ readonly data: Data | undefined }>
}

/**
 * Reads with a GET operation. An operation that the session does not permit is not called: `data` stays undefined.
 *
 * @example const { data: tenant, error } = useOperation('tenants.get', { params: { id } })
 */
export function useOperation<Name extends OperationName>(
  name: Name,
  input: Input<Name>,
  { enabled = true, ...options }: ReadOptions<Result<Name>> = {},
): Read<Result<Name>> {
  return useQuery<Result<Name>, Problem>({
    queryKey: [name, input],
    queryFn: async ({ signal }) => {
      const response = await callForResponse(name, input, { signal })
      keepETag(name, input, response)
      return resultOf(response)
    },
    ...options,
    enabled: enabled && isPermitted(name),
    placeholderData: keepPreviousData as never,
  })
}

/** Rows of a list that stay in the document. */
const MAX_ROWS = 600
const DEFAULT_LIMIT = 50

type ListName = {
  [Name in OperationName]: Result<Name> extends { data: unknown[]; nextCursor: string | null } ? Name : never
}[OperationName]

export type Item<Name extends OperationName> = Result<Name> extends { data: (infer One)[] } ? One : never

export interface List<One> {
  /** Undefined before the first page. */
  readonly rows: readonly One[] | undefined
  readonly error: Problem | null
  /** Whether the rows belong to a former search. */
  readonly isStale: boolean
  readonly isLoadingMore: boolean
  /** Loads the next page; undefined on the last one. */
  readonly loadMore: (() => void) | undefined
  /** Shows rows that left the document; undefined if the first rows are shown. */
  readonly loadEarlier: (() => void) | undefined
  readonly retry: () => void
}

/** Reads a list page by page. @example const list = useList('tenants.list', { query: { status: 'active' } }) */
export function useList<Name extends ListName>(
  name: Name,
  input: Input<Name>,
  { enabled = true, ...options }: ReadOptions = {},
): List<Item<Name>> {
  const { limit = DEFAULT_LIMIT } = (input as { query?: { limit?: number } }).query ?? {}
  // Cursors lead forward only, so those of earlier pages are kept.
  const cursors = useRef<string[]>([''])
  const cursorBefore = (first: string) => cursors.current[cursors.current.indexOf(first) - 1]
  const found = useInfiniteQuery({
    queryKey: [name, input, 'pages'],
    queryFn: ({ pageParam, signal }) => {
      const known = cursors.current
      if (pageParam === '') cursors.current = [...new Set(['', ...known])]
      else if (!known.includes(pageParam)) cursors.current = [...known, pageParam]
      const query = { ...(input as { query?: object }).query, ...(pageParam ? { cursor: pageParam } : {}) }
      return call(name, { ...input, query: query as Query<Name> }, { signal }) as Promise<{
        data: Item<Name>[]
        nextCursor: string | null
      }>
    },
    initialPageParam: '',
    getNextPageParam: ({ nextCursor }) => nextCursor,
    getPreviousPageParam: (_, __, first) => cursorBefore(first),
    maxPages: Math.max(Math.floor(MAX_ROWS / limit), 1),
    ...options,
    enabled: enabled && isPermitted(name),
    placeholderData: keepPreviousData,
  })
  return {
    rows: found.data?.pages.flatMap(({ data }) => data),
    error: found.error && toProblem(found.error),
    isStale: found.isPlaceholderData,
    isLoadingMore: found.isFetchingNextPage,
    loadEarlier: found.hasPreviousPage ? () => void found.fetchPreviousPage() : undefined,
    loadMore: found.hasNextPage ? () => void found.fetchNextPage() : undefined,
    retry: () => void found.refetch(),
  }
}

export interface ActionOptions<Name extends OperationName> {
  /** Message after success. */
  readonly done?: string | ((result: Result<Name>, input: Input<Name>) => string)
  /** Members of the object with this id, shown until the response arrives. For harmless actions only. */
  readonly optimistic?: (input: Input<Name>) => { readonly id: string; readonly patch: object }
  /** Reverts the action: called by the toast. */
  readonly undo?: (input: Input<Name>, result: Result<Name>) => unknown
  /** @param tag ETag of the result */
  readonly onDone?: (result: Result<Name>, input: Input<Name>, tag: string | undefined) => void
  /** Whether the caller shows the problem; default: a toast shows it. */
  readonly showsProblem?: boolean
  /** Whether the result has a secret, which is not kept. */
  readonly isSecret?: boolean
}

export interface Action<Name extends OperationName> {
  /** Resolves to the result; undefined after a problem, which is shown. */
  readonly run: (input: Input<Name>, options?: { ifMatch?: string }) => Promise<Result<Name> | undefined>
  readonly isRunning: boolean
  readonly problem: Problem | null
  readonly reset: () => void
  readonly isPermitted: boolean
}

/**
 * Changes with an operation. A repeated call after a lost response has the same idempotency key, so it has one effect.
 *
 * @example const suspend = useAction('tenants.suspend', { done: text.suspended }); suspend.run({ params: { id } })
 */
export function useAction<Name extends OperationName>(
  name: Name,
  { done, optimistic, undo, onDone, showsProblem = false, isSecret = false }: ActionOptions<Name> = {},
): Action<Name> {
  const key = useRef(newKey())
  const tag = useRef<string>(undefined)
  const mutation = useMutation<Result<Name>, Problem, { input: Input<Name>; ifMatch?: string }, () => void>({
    mutationKey: [name],
    ...(isSecret ? { gcTime: 0 } : {}),
    mutationFn: async ({ input, ifMatch }) => {
      const response = await callForResponse(name, input, { key: key.current, ...(ifMatch ? { ifMatch } : {}) })
      tag.current = response.headers.get('etag') ?? undefined
      return resultOf(response)
    },
    onMutate: async ({ input }) => {
      const expected = optimistic?.(input)
      if (!expected) return () => undefined
      await client.cancelQueries()
      return patchCached(expected.id, expected.patch)
    },
    onSuccess: (result, { input }) => {
      key.current = newKey()
      const text = typeof done === 'function' ? done(result, input) : done
      if (text) notify({ text, ...(undo ? { undo: () => undo(input, result) } : {}) })
      onDone?.(result, input, tag.current)
      void client.invalidateQueries()
    },
    onError: (problem, _, rollback) => {
      if (!problem.isTemporary) key.current = newKey() // the same key would return the stored rejection
      rollback?.()
      if (!showsProblem) notify({ text: problem.message, detail: problem.code, isError: true })
    },
  })
  return {
    run: (input, options) => mutation.mutateAsync({ input, ...options }).catch(() => undefined),
    isRunning: mutation.isPending,
    problem: mutation.error,
    reset: mutation.reset,
    isPermitted: isPermitted(name),
  }
}

/**
 * The same without a hook, for actions of menus and for undo. A problem appears as a toast.
 *
 * @example run: ({ id }) => runAction('tenants.activate', { params: { id } }, { done: text.activated })
 */
export async function runAction<Name extends OperationName>(
  name: Name,
  input: Input<Name>,
  { done, optimistic, undo, onDone }: ActionOptions<Name> = {},
): Promise<Result<Name> | undefined> {
  const expected = optimistic?.(input)
  if (expected) await client.cancelQueries()
  const rollback = expected && patchCached(expected.id, expected.patch)
  try {
    const result = await call(name, input, { key: newKey() })
    const text = typeof done === 'function' ? done(result, input) : done
    if (text) notify({ text, ...(undo ? { undo: () => undo(input, result) } : {}) })
    onDone?.(result, input, undefined)
    void client.invalidateQueries()
    return result
  } catch (error) {
    rollback?.()
    const { message, code } = toProblem(error)
    notify({ text: message, detail: code, isError: true })
    return undefined
  }
}

/** Changes each cached object with an id, in results and in pages of lists. Returns a function that reverts it. */
function patchCached(id: string, patch: object): () => void {
  const former = client.getQueriesData({})
  const patched = (value: any): any => {
    if (Array.isArray(value)) return value.map(patched)
    if (value === null || typeof value !== 'object') return value
    if (value.id === id) return { ...value, ...patch }
    if (Array.isArray(value.pages)) return { ...value, pages: patched(value.pages) }
    return Array.isArray(value.data) ? { ...value, data: patched(value.data) } : value
  }
  for (const [queryKey, value] of former) client.setQueryData(queryKey, patched(value))
  return () => {
    for (const [queryKey, value] of former) client.setQueryData(queryKey, value)
  }
}

/** Whether a read is in progress. */
export const useIsReading = (): boolean => useIsFetching() > 0
