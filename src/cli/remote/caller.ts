/** Calls operations of a remote service for commands: the same commands that run on the database. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Caller } from '../../kernel/api/caller.ts'
import type { CommandInput } from '../../kernel/api/commands.ts'
import { type AnyOperation, type CallInput, Reply } from '../../kernel/api/operation.ts'
import type { ProjectedCommand } from '../../kernel/api/projection.ts'
import { DependencyUnavailable, NotFound, TenancyError } from '../../kernel/base/errors.ts'
import { outcomeUnknown, send } from './request.ts'
import { type RemoteTarget, reachRemedy } from './target.ts'

type Service = Pick<RemoteTarget, 'url' | 'token' | 'source'>

const POLL_MS = 500
/** In succession: about 30 s, the restart of a service. */
const MAX_FAILED_POLLS = 60
/** Segments that a URL parser removes, also percent-encoded. */
const DOTS = /^\.{1,2}$/

/** A question names the service, because the current profile can select it. */
export async function runRemotely(command: ProjectedCommand, target: Service, input: CommandInput): Promise<void> {
  const { terminal, signal } = input
  const confirm = (question: string) => terminal.confirm(`On ${target.url} (${target.source}): ${question}`)
  await command.runWith(remoteCaller(target, signal), { ...input, terminal: { ...terminal, confirm } })
}

export const remoteCaller = ({ url, token, source }: Service, signal: AbortSignal): Caller => ({
  async call(operation, input) {
    const look = lookOf(operation, input)
    const { status, location, result } = await send(url + pathOf(operation, input), {
      ...requestOf(operation, input, token),
      signal,
      remedy: reachRemedy({ source }),
      look,
      alsoStatus: operation.alsoStatus,
    }).catch((error) => {
      if (!(error instanceof TenancyError) || !error.code.startsWith('HTTP_')) throw error
      if (error.status < 500) throw foreign(url, source, error)
      throw operation.method === 'GET' ? proxyFailed(url, error) : outcomeUnknown(url, look, error)
    })
    const body = result ?? undefined
    const checked = operation.reply.safeParse(body)
    if (!checked.success) throw foreign(url, source, checked.error)
    return new Reply(status, body, location === null ? {} : { location })
  },
  async settle({ signal: until, isSettled }) {
    for (let failures = 0; !until.aborted; ) {
      try {
        if (await isSettled()) return
        failures = 0
      } catch (error) {
        if (!isTransient(error) || ++failures > MAX_FAILED_POLLS) throw error
      }
      await sleep(POLL_MS, undefined, { signal: until }).catch(() => undefined) // aborted
    }
  },
})

/** The service restarts, or it is or has an unavailable dependency. */
const isTransient = (error: unknown): boolean => error instanceof TenancyError && error.status >= 500

function requestOf({ method, body: schema }: AnyOperation, { body }: CallInput, token: string): RequestInit {
  const headers = { 'x-admin-token': token, accept: 'application/json' }
  if (!schema) return { method, headers }
  return { method, headers: { ...headers, 'content-type': 'application/json' }, body: JSON.stringify(body ?? {}) }
}

/** A parameter that matches no pattern is not found, as on the database. It could also change the path, such as `..`. */
function pathOf(operation: AnyOperation, { params = {}, query = {} }: CallInput): string {
  const { path, params: schema, errors = [] } = operation
  const names = Array.from(path.matchAll(/\{(\w+)\}/g), ([, name = '']) => name)
  const issues: readonly { path: PropertyKey[] }[] = schema?.safeParse(params).error?.issues ?? []
  const rejected = new Set(issues.map(({ path: [name] }) => name))
  const wrong = names.findIndex((name) => rejected.has(name) || DOTS.test(params[name] ?? ''))
  if (wrong >= 0) {
    const notFound = errors.filter(({ status }) => status === 404)
    const type = notFound[wrong] ?? notFound.at(-1) ?? NotFound
    const kind = type === NotFound ? kindOf(operation) : type.title.replace(/ not found$/, '')
    throw type(`${kind} "${params[names[wrong] ?? '']}" not found.`)
  }
  const segments = path.replaceAll(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(params[name] ?? ''))
  const search = new URLSearchParams(query).toString()
  return search ? `${segments}?${search}` : segments
}

/** `Impersonation` of `impersonations.end`. */
const kindOf = ({ name }: AnyOperation): string => {
  const [kind = ''] = name.split('.')
  return kind.charAt(0).toUpperCase() + kind.slice(1).replace(/s$/, '')
}

/** The audit log has the changes of an operation under its name. */
const lookOf = ({ name }: AnyOperation, { params: { id } = {} }: CallInput): string =>
  `Before you run the command again, look for it in the audit log: tenantry tenant:audit:list ${id === undefined ? '' : `${id} `}--action ${name}`

/** The response of a proxy without a service behind it. */
const proxyFailed = (url: string, cause: TenancyError) =>
  DependencyUnavailable(`${url} responded with status ${cause.status}. Check that the service runs.`, { cause })

const foreign = (url: string, source: string, cause: unknown) =>
  DependencyUnavailable(
    `The response of ${url} is not one of this release's admin API. Check the URL in ${source}, and the release of the service.`,
    { cause },
  )
