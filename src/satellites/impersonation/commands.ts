import { command } from '../../kernel/api/commands.ts'
import { invalid } from '../../kernel/base/errors.ts'
import type { Impersonations } from './impersonation.ts'
import type { Impersonation } from './resource.ts'

const PAGE = 200

const id = { name: 'id', summary: 'of the tenant', required: true }

export const commands = [
  command<Impersonations>({
    name: 'tenant:impersonate',
    summary: "Begin to act in the name of a tenant's user; prints the token, this once",
    arguments: [id, { name: 'userId', summary: 'as the host calls the user', required: true }],
    options: [
      { flags: '--reason <text>', summary: 'why; it stands in the audit log with every request', required: true },
      { flags: '--duration <seconds>', summary: 'at most 3600; default 900', parse: seconds },
    ],
    run: async (impersonations, { args, options, terminal }) => {
      const { id = '', userId = '' } = args
      const { reason, duration: durationSeconds } = options
      terminal.record(await impersonations.start(id, { userId, reason, durationSeconds }))
    },
  }),
  command<Impersonations>({
    name: 'tenant:impersonate:list',
    summary: "List a tenant's impersonations, the newest first",
    arguments: [id],
    options: [{ flags: '--active', summary: 'only those that are on' }],
    run: async (impersonations, { args, options, terminal, signal }) => {
      const all: Impersonation[] = []
      let cursor: string | undefined
      do {
        signal.throwIfAborted()
        const page = await impersonations.list(args.id ?? '', { limit: PAGE, cursor, active: options.active })
        all.push(...page.data)
        cursor = page.nextCursor ?? undefined
      } while (cursor)
      const shown = all.map(({ sessionId, userId, actor, reason, createdAt, expiresAt, endedAt }) => {
        return { sessionId, userId, actor: actor.name, reason, createdAt, expiresAt, endedAt }
      })
      terminal.table(shown, all)
    },
  }),
  command<Impersonations>({
    name: 'tenant:impersonate:end',
    summary: 'End an impersonation: the next request with its token is refused',
    arguments: [{ name: 'sessionId', summary: 'of the impersonation', required: true }],
    run: async (impersonations, { args, terminal }) => {
      terminal.record(await impersonations.end(args.sessionId ?? ''))
    },
  }),
]

function seconds(text: string): number {
  if (!/^\d{1,4}$/.test(text)) throw invalid([{ path: 'duration', message: 'not a whole number of seconds' }])
  return Number(text)
}
