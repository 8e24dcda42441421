/** Shows a secret once. It exists only in its dialog. */
import { Button, Copyable } from '../../../console/components/base/button.tsx'
import { Dialog } from '../../../console/components/dialog.tsx'
import { text } from './text.ts'

/** @param secret undefined: the service returned none, because an earlier call has created it */
export const SecretDialog = ({ secret, onClose }: { secret: string | undefined; onClose: () => void }) => (
  <Dialog
    title={text.secretTitle}
    description={secret === undefined ? text.secretMissing : text.secretOnce}
    onClose={onClose}
  >
    {secret !== undefined && (
      <p className="secret">
        <Copyable value={secret} />
      </p>
    )}
    <footer>
      <Button variant="primary" onClick={onClose}>
        {text.done}
      </Button>
    </footer>
  </Dialog>
)
