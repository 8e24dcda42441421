/**
 * A form whose state another operator changed meanwhile: the differences, and two ways on. "Load" shows the present state in the form,
 * "Apply mine" sends the form again for the present state.
 */
import type { Problem } from '../data/problem.ts'
import { Button } from './base/button.tsx'
import { Diff } from './base/diff.tsx'
import { Icon } from './base/icon.tsx'
import { text } from './base/text.ts'

interface ChangedProps {
  readonly problem: Problem
  /** State that the form started with. */
  readonly base: unknown
  readonly onLoad: () => unknown
  readonly onApply: () => void
}

export const isChangedMeanwhile = (problem: Problem | null): problem is Problem =>
  problem?.code === 'E_CHANGED_MEANWHILE'

export function ChangedMeanwhile({ problem, base, onLoad, onApply }: ChangedProps) {
  const current = problem.extras.current
  return (
    <div className="problem" role="alert">
      <Icon name="warning" />
      <div>
        <p className="problem-title">{text.changedMeanwhile}</p>
        {current ? <Diff before={base} after={current} /> : <p>{text.deletedMeanwhile}</p>}
        {current !== null && (
          <div className="section-actions">
            <Button onClick={() => void onLoad()}>{text.load}</Button>
            <Button onClick={onApply}>{text.applyMine}</Button>
          </div>
        )}
      </div>
    </div>
  )
}
