/** A state as a shape, a colour and a word. */
import { text } from './text.ts'

export type Tone = 'good' | 'warning' | 'bad' | 'neutral' | 'progress'

const SHAPES: Readonly<Record<Tone, string>> = { good: '●', warning: '▲', bad: '■', neutral: '○', progress: '◐' }

const TONES: Readonly<Record<string, Tone>> = {
  active: 'good',
  ok: 'good',
  pass: 'good',
  delivered: 'good',
  completed: 'good',
  provisioning: 'progress',
  pending: 'progress',
  running: 'progress',
  suspended: 'warning',
  maintenance: 'warning',
  degraded: 'warning',
  warn: 'warning',
  failed: 'bad',
  fail: 'bad',
  error: 'bad',
  deleted: 'neutral',
  cancelled: 'neutral',
}

/** @param tone default: that of the state */
export const Status = ({
  state,
  tone = TONES[state] ?? 'neutral',
  children,
}: {
  state: string
  tone?: Tone | undefined
  children?: React.ReactNode
}) => (
  <span className="status" data-tone={tone}>
    <i aria-hidden="true">{SHAPES[tone]}</i>
    <span>{children ?? state}</span>
  </span>
)

/** A short label, such as a plan. */
export const Badge = ({ tone = 'neutral', children }: { tone?: Tone; children: React.ReactNode }) => (
  <span className="badge" data-tone={tone}>
    {children}
  </span>
)

/** In place of a value that does not exist, or that a list of limited length does not have. */
export const Absent = ({ isUnknown = false }: { isUnknown?: boolean }) => (
  <span className="faint">{isUnknown ? text.unknown : '–'}</span>
)
