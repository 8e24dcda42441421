import { commandsOf } from '../../kernel/api/projection.ts'
import { invalid } from '../../kernel/base/errors.ts'
import type { Explanation } from './feature-flags.ts'
import type { FlagSettings } from './model/flag.ts'
import { operations } from './operations.ts'
import { command } from './part.ts'

const id = { name: 'id', summary: 'of the tenant', required: true }
const key = { name: 'key', summary: 'of the flag', required: true }

export const commands = [
  ...commandsOf(operations, 'tenant:flags:list'),
  command({
    name: 'tenant:flags:set',
    summary: 'Create or change a flag; what is not given stays as it is',
    arguments: [id, key],
    options: [
      { flags: '--enabled', summary: 'on, for everybody or for the percentage' },
      { flags: '--disabled', summary: 'off, for everybody' },
      {
        flags: '--rollout <percent>',
        summary: 'on for so many of a hundred; none: for everybody',
        parse: rollout,
      },
      {
        flags: '--bucket-key <field>',
        summary: 'the field of the context that decides who; empty: what the caller gives',
      },
    ],
    run: async (flags, { args, options, terminal }) => {
      if (options.enabled && options.disabled) {
        throw invalid([{ path: 'enabled', message: 'either --enabled or --disabled' }])
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
    summary: 'Say whether a flag is on for somebody, and why',
    arguments: [id, key],
    options: [
      { flags: '--bucket-key <value>', summary: 'what the caller would give, say the id of a user' },
      { flags: '--attribute <name=value...>', summary: 'of the context; may be given again', parse: attribute },
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
      return 'the tenant has no such flag, or there is no such tenant'
    case 'DISABLED':
      return 'it is switched off for everybody'
    case 'STATIC':
      return 'it is switched on, for everybody'
    case 'SPLIT': {
      const share = `${rolloutPercent} % ${rolloutPercent === 0 ? 'is no bucket' : `are those below ${Number(rolloutPercent) * 100}`}`
      return `${JSON.stringify(value)} (${valueFrom}) falls into bucket ${bucket}; ${share}, so it is ${enabled ? 'on' : 'off'}`
    }
    case 'STALE':
      return 'the database cannot be reached; this is what was last known'
    case 'ERROR':
      return 'the database cannot be reached, and nothing was known'
  }
}

function rollout(text: string): number | 'none' {
  if (text === 'none') return text
  if (/^\d{1,3}$/.test(text) && Number(text) <= 100) return Number(text)
  throw invalid([{ path: 'rollout', message: `"${text}" is not a whole number from 0 to 100, or none` }])
}

function attribute(text: string): [name: string, value: string] {
  const at = text.indexOf('=')
  if (at < 0) throw invalid([{ path: 'attribute', message: `"${text}" is not name=value` }])
  return [text.slice(0, at), text.slice(at + 1)]
}
