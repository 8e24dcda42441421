/** The percentage of a flag: changed by 5 with `+` and `-`, saved with `Enter`. */
import { type FormEvent, useRef } from 'react'
import { Button } from '../../../console/components/base/button.tsx'
import { isPermitted } from '../../../console/data/session.ts'
import { editFlag } from './actions.ts'
import type { Flag } from './model.ts'
import { text } from './text.ts'

const STEP = 5

interface RolloutProps {
  readonly flag: Flag
  /** Percentage that is not saved; null: all; undefined: as saved. */
  readonly draft: number | null | undefined
  readonly onDraft: (draft: number | null | undefined) => void
}

export function Rollout({ flag, draft, onDraft }: RolloutProps) {
  const { rolloutPercent, enabled, bucketKey } = flag
  const percent = draft === undefined ? rolloutPercent : draft
  const isChanged = draft !== undefined && draft !== rolloutPercent
  const form = useRef<HTMLFormElement>(null)
  const isDisabled = !isPermitted('featureFlags.edit')
  const change = (value: number | null) => onDraft(value)
  const step = (by: number) => {
    change(Math.min(Math.max((percent ?? 100) + by, 0), 100))
    // A key clicks the button without a focus in the form; Enter then saves.
    if (!form.current?.contains(document.activeElement))
      form.current?.querySelector<HTMLElement>('[type=submit]')?.focus()
  }
  const save = async (event: FormEvent) => {
    event.preventDefault()
    if (!isChanged || draft === undefined) return
    if (await editFlag(flag, { rolloutPercent: draft })) onDraft(undefined)
  }
  return (
    <form ref={form} className="rollout" onSubmit={save}>
      <div className="stepper">
        <Button shortcut="-" aria-label={text.less} title={text.less} disabled={isDisabled} onClick={() => step(-STEP)}>
          −
        </Button>
        <output>{text.percent(percent)}</output>
        <Button shortcut="+" aria-label={text.more} title={text.more} disabled={isDisabled} onClick={() => step(STEP)}>
          +
        </Button>
        <input
          type="range"
          min={0}
          max={100}
          aria-label={text.percentLabel}
          aria-valuetext={text.percent(percent)}
          value={percent ?? 100}
          disabled={isDisabled}
          onChange={(event) => change(Number(event.target.value))}
          onKeyDown={(event) => event.key === 'Enter' && form.current?.requestSubmit()}
        />
      </div>
      <p className="faint">
        {!enabled && <>{text.isOff} </>}
        {percent !== null && text.decidedBy(bucketKey)}
      </p>
      <footer>
        <span className="faint" role="status">
          {isChanged ? text.unsaved(text.percent(rolloutPercent)) : ''}
        </span>
        <div>
          {percent !== null && !isDisabled && <Button onClick={() => change(null)}>{text.forAll}</Button>}
          {isChanged && <Button onClick={() => onDraft(undefined)}>{text.discard}</Button>}
          {!isDisabled && (
            <Button type="submit" variant="primary" disabled={!isChanged}>
              {text.save}
            </Button>
          )}
        </div>
      </footer>
    </form>
  )
}
