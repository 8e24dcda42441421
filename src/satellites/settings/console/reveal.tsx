/** Dialog: reads the value of a secret. The value exists only in this dialog. */
import { useState } from 'react'
import type { Result } from '../../../console/api/contract.ts'
import { Confirm } from '../../../console/components/confirm.tsx'
import { ShownOnce } from '../../../console/components/shown-once.tsx'
import { useAction } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import { paramsOf, type Target, textOf } from './setting.ts'
import { text } from './text.ts'

export default function Reveal({ target, onClose }: ActionProps<Target>) {
  const [revealed, setRevealed] = useState<Result<'settings.reveal'>>()
  const input = { params: paramsOf(target), body: {} }
  const reveal = useAction('settings.reveal', { onDone: setRevealed, showsProblem: true, isSecret: true })
  if (revealed) {
    const value = revealed.value === undefined ? undefined : textOf(revealed.value)
    return <ShownOnce title={target.name} description={text.revealed} value={value} onClose={onClose} />
  }
  return (
    <Confirm
      title={text.revealTitle(target.name)}
      confirm={text.reveal}
      isDestructive={false}
      isRunning={reveal.isRunning}
      problem={reveal.problem}
      call={{ name: 'settings.reveal', input }}
      onConfirm={() => reveal.run(input)}
      onClose={onClose}
    >
      <p>{text.revealText}</p>
    </Confirm>
  )
}
