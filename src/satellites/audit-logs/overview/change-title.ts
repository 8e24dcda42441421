/**
 * The title of an audit entry in the timeline: `Suspended by Ann`, `Feature flag new-editor edited by Ann`. It is derived from the names of the
 * operation and of the object, so entries of hosts have one too.
 */
import { isUuid } from '../../../kernel/base/ids.ts'

interface Entry {
  readonly action: string
  readonly target: string
  readonly actor: { readonly name: string }
  readonly outcome: string
}

/** Operations whose names are no verb with its object. */
const NAMED: Readonly<Record<string, string>> = {
  enterMaintenance: 'Maintenance started',
  exitMaintenance: 'Maintenance ended',
  replayFailed: 'Failed deliveries replayed',
  replayAllFailed: 'Failed deliveries replayed',
  replayMissing: 'Missed deliveries sent',
  dunning: 'Dunning changed',
  checkout: 'Checkout started',
  portal: 'Portal opened',
}

const IRREGULAR: Readonly<Record<string, string>> = {
  forget: 'forgotten',
  reset: 'reset',
  send: 'sent',
  set: 'set',
  undo: 'undone',
  unmap: 'unmapped',
}

/** Objects of a tenant that have its id: the timeline names the tenant already. */
const OF_TENANT = new Set(['tenant', 'quotas'])

export function changeTitle({ action, target, actor, outcome }: Entry): string {
  const name = action.slice(action.lastIndexOf('.') + 1)
  const words = wordsOf(name)
  if (outcome === 'failure') return `${capital(words.join(' '))} failed, requested by ${actor.name}`
  return `${NAMED[name] ?? capital(sentenceOf(words, target))} by ${actor.name}`
}

function sentenceOf([verb = '', ...object]: readonly string[], target: string): string {
  const done = participleOf(verb)
  return [object.length > 0 ? object.join(' ') : nameOf(target), done].filter(Boolean).join(' ')
}

/** `featureFlag:new-editor` is `feature flag new-editor`. Ids without a meaning are left out. */
function nameOf(target: string): string {
  const [kind = '', ...id] = target.split(':')
  if (OF_TENANT.has(kind)) return ''
  const own = id.join(':')
  return [...wordsOf(kind), ...(own && !isUuid(own) ? [own] : [])].join(' ')
}

function participleOf(verb: string): string {
  if (verb.endsWith('ed')) return verb
  if (IRREGULAR[verb]) return IRREGULAR[verb]
  if (verb.endsWith('e')) return `${verb}d`
  return /[^aeiou]y$/.test(verb) ? `${verb.slice(0, -1)}ied` : `${verb}ed`
}

const wordsOf = (name: string): string[] => name.replace(/[A-Z]/g, (letter) => ` ${letter.toLowerCase()}`).split(' ')
const capital = (text: string): string => text.charAt(0).toUpperCase() + text.slice(1)
