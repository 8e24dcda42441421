import { commandsOf } from '../../kernel/api/projection.ts'
import { invalid } from '../../kernel/base/errors.ts'
import type { Explanation } from './feature-flags.ts'
import type { FlagSettings } from './model/flag.ts'
import { operations } from './operations.ts'
import { command } from './part.ts'

const id = { name: 'id', summary: 'id of the tenant', required: true }
const key = { name: 'key', summary: 'key of the flag', required: true }

export const commands = [
  ...commandsOf(operations, 'tenant:flags:list'),
  command({
    name: 'tenant:flags:set',
    summary: 'Create or change a flag; omitted options keep their values',
    arguments: [id, key],
    options: [
      { flags: '--enabled', summary: 'on, for all contexts or for the percentage' },
      { flags: '--disabled', summary: 'off, for all contexts' },
      {
        flags: '--rollout <percent>',
        summary: 'percentage of contexts; none: all contexts',
        parse: rollout,
      },
      {
        flags: '--bucket-key <field>',
        summary: 'field of the context that decides; empty: the bucketKey of the caller',
      },
    ],
    run: async (flags, { args, options, terminal }) => {
      if (options.enabled && options.disabled) {
        throw invalid([{ path: 'enabled', message: 'Give either --enabled or --disabled.' }])
      }
      const edits: { -readonly [Member in keyof FlagSettings]?: FlagSettings[Member] } = {}
      if (options.enabled || options.disabled) edits.enabled = Boolean(options.enabled)
      if (options.rollout !== undefined) edits.rolloutPercent = options.rollout === 'none' ? null : options.rollout
      if (options.bucketKey !== undefined) edits.bucketKey = options.bucketKey || null
      terminal.record((await flags.edit(args.id ?? '', args.key ?? '', edits)).flag)
    },
  }),
  ...commandsOf(operations, 'tenant:flags:delete'),
  command({
    name: 'tenant:flags:explain',
    summary: 'Evaluate a flag, and show the reason',
    arguments: [id, key],
    options: [
      { flags: '--bucket-key <value>', summary: 'bucketKey of the caller, such as the id of a user' },
      { flags: '--attribute <name=value...>', summary: 'attribute of the context; can be repeated', parse: attribute },
    ],
    run: async (flags, { args, options, terminal }) => {
      const attributes = Object.fromEntries(options.attribute ?? [])
      const context = { tenantId: args.id ?? '', bucketKey: options.bucketKey, attributes }
      const explanation = await flags.explain(args.key ?? '', context)
      terminal.record({ ...explanation, why: whyOf(explanation) })
    },
  }),
]

function whyOf({ reason, enabled, bucket, rolloutPercent, value, valueFrom }: Explanation): string {
  switch (reason) {
    case 'FLAG_NOT_FOUND':
      return 'the flag or the tenant does not exist'
    case 'DISABLED':
      return 'it is disabled for all contexts'
    case 'STATIC':
      return 'it is enabled for all contexts'
    case 'SPLIT': {
      const share = `${rolloutPercent} % ${rolloutPercent === 0 ? 'is no bucket' : `are the buckets below ${Number(rolloutPercent) * 100}`}`
      return `${JSON.stringify(value)} (${valueFrom}) has bucket ${bucket}; ${share}, so it is ${enabled ? 'on' : 'off'}`
    }
    case 'STALE':
      return 'the database is unavailable; this is the last known value'
    case 'ERROR':
      return 'the database is unavailable, and no value is known'
  }
}

function rollout(text: string): number | 'none' {
  if (text === 'none') return text
  if (/^\d{1,3}$/.test(text) && Number(text) <= 100) return Number(text)
  throw invalid([{ path: 'rollout', message: `"${text}" must be a whole number from 0 to 100, or none` }])
}

function attribute(text: string): [name: string, value: string] {
  const at = text.indexOf('=')
  if (at < 0) throw invalid([{ path: 'attribute', message: `"${text}" must be name=value` }])
  return [text.slice(0, at), text.slice(at + 1)]
}
