import { command } from '../../kernel/api/commands.ts'
import { invalid } from '../../kernel/base/errors.ts'
import { parsed } from '../../kernel/base/validate.ts'
import { QuotaName, Usage } from './operations.ts'
import type { QuotaSnapshot, Quotas } from './quotas.ts'

const id = { name: 'id', summary: 'id of the tenant', required: true }
const quota = { name: 'quota', summary: 'as in the limits of the plans' }

export const commands = [
  command<Quotas>({
    name: 'tenant:quotas:show',
    summary: 'Show what a tenant may use and has used',
    arguments: [id],
    run: async (quotas, { args, terminal }) => {
      const snapshot = await quotas.snapshot(args.id ?? '')
      terminal.table(rowsOf(snapshot), snapshot)
      terminal.say(`plan: ${snapshot.plan}`)
    },
  }),
  command<Quotas>({
    name: 'tenant:quotas:set',
    summary: 'Set a value that stands until it is set again: seats, gigabytes',
    arguments: [id, { ...quota, required: true }, { name: 'value', summary: 'a number of 0 or more', required: true }],
    run: async (quotas, { args, terminal }) => {
      const { quota, value } = parsed(Usage, { quota: args.quota, value: decimal(args.value ?? '') })
      await quotas.correct(args.id ?? '', quota, value)
      const snapshot = await quotas.snapshot(args.id ?? '')
      terminal.table(rowsOf(snapshot), snapshot)
    },
  }),
  command<Quotas>({
    name: 'tenant:quotas:reset',
    summary: 'Set what a tenant has used to nothing, of one quota or of all',
    arguments: [id, quota],
    run: async (quotas, { args, terminal }) => {
      const name = args.quota === undefined ? undefined : parsed(QuotaName, args.quota, 'quota')
      const what = name === undefined ? 'everything that' : `what of "${name}"`
      if (!(await terminal.confirm(`Forget ${what} the tenant "${args.id}" has used?`))) return
      await quotas.reset(args.id ?? '', name)
      const snapshot = await quotas.snapshot(args.id ?? '')
      terminal.table(rowsOf(snapshot), snapshot)
    },
  }),
]

/** `Number` would take blanks, `0x10` and `1e1`, too. */
function decimal(text: string): number {
  if (/^\d+(\.\d+)?$/.test(text)) return Number(text)
  throw invalid([{ path: 'value', message: `"${text}" is not a number of 0 or more` }])
}

const rowsOf = ({ limits, usage }: QuotaSnapshot) =>
  Object.entries(usage).map(([quota, used]) => {
    const limit = limits[quota]
    return { quota, used, limit: limit ?? 'unlimited', left: limit === undefined ? '' : Math.max(0, limit - used) }
  })
