/** Dialog: moves a tenant to another isolation driver or placement. */
import { useState } from 'react'
import { Confirm } from '../../../console/components/confirm.tsx'
import { Select } from '../../../console/components/select.tsx'
import { useAction, useOperation } from '../../../console/data/queries.ts'
import type { ActionProps } from '../../../console/module.ts'
import type { Tenant } from '../base/tenant.ts'
import { text } from './text.ts'

export default function Move({ target: { id, name, ...present }, onClose }: ActionProps<Tenant>) {
  const { data } = useOperation('placements.list', {})
  const [isolation, setIsolation] = useState<string>()
  const [placement, setPlacement] = useState<string>()
  const body = { ...(isolation ? { isolation } : {}), ...(placement ? { placement } : {}) }
  const input = { params: { id }, body }
  const move = useAction('tenants.move', { done: text.moving(name), onDone: onClose, showsProblem: true })
  const drivers = (data?.drivers ?? []).filter(({ name, copies }) => copies && name !== present.isolation)
  const placements = (data?.data ?? []).filter(({ name, isConfigured }) => isConfigured && name !== present.placement)
  const isChosen = isolation !== undefined || placement !== undefined
  return (
    <Confirm
      title={text.moveTitle(name)}
      word={id}
      confirm={text.move}
      isRunning={move.isRunning}
      problem={move.problem}
      call={{ name: 'tenants.move', input }}
      onConfirm={() => isChosen && move.run(input)}
      onClose={onClose}
    >
      <p>{text.moveText}</p>
      <div className="choices">
        <Select
          label={text.isolation}
          none={text.unchanged(present.isolation)}
          value={isolation}
          options={drivers.map(({ name }) => [name, name])}
          onChange={setIsolation}
        />
        <Select
          label={text.placement}
          none={text.unchanged(present.placement)}
          value={placement}
          options={placements.map(({ name, tenants }) => [name, text.placementOption(name, tenants)])}
          onChange={setPlacement}
        />
      </div>
      {!isChosen && <p className="faint">{text.chooseTarget}</p>}
    </Confirm>
  )
}
