"""Recurrent cells: single steps against torch's own modules, derivatives of states against autograd."""

import pytest
import torch

from truerisk.errors import TrueriskError
from truerisk.nets.recurrent import CELLS, Recurrent, state_derivatives


@pytest.mark.parametrize("cell", CELLS)
def test_steps_are_those_of_torch(cell):
    torch.manual_seed(0)
    net = Recurrent(cell, 3, 5, 2).double()
    x = torch.randn(4, 6, 3, dtype=torch.float64)
    states = [torch.zeros(net.states, dtype=torch.float64) for _ in range(4)]
    for t in range(6):
        states = [net.step(state, x[i, t]) for i, state in enumerate(states)]
    hidden = torch.stack(states)[:, :5]
    torch.testing.assert_close(net(x), net.last(hidden))


@pytest.mark.parametrize("cell", CELLS)
def test_derivatives_are_those_of_autograd(cell):
    torch.manual_seed(1)
    net = Recurrent(cell, 2, 4, 2).double()
    x = torch.randn(3, 5, 2, dtype=torch.float64)
    found = state_derivatives(net, x, [1, 5])
    for place, steps in enumerate((1, 5)):
        for i in range(3):

            def walk(state, i=i, steps=steps):
                for t in range(steps):
                    state = net.step(state, x[i, t])
                return state

            J = torch.autograd.functional.jacobian(walk, torch.zeros(net.states, dtype=torch.float64))
            assert float(found[place, i]) == pytest.approx(float(torch.linalg.matrix_norm(J, 2).log()), abs=1e-9)


def test_starts_and_refusals():
    torch.manual_seed(0)
    W = Recurrent("orthogonal", 2, 6, 2).core.weight_hh_l0.detach()
    torch.testing.assert_close(W @ W.T, torch.eye(6))
    bias = Recurrent("lstm", 2, 6, 2, forget=3.0).core
    assert (bias.bias_ih_l0[6:12] + bias.bias_hh_l0[6:12]).detach().tolist() == [3.0] * 6
    with pytest.raises(TrueriskError, match="the cell is 'gru'"):
        Recurrent("gru", 2, 3, 2)
    with pytest.raises(TrueriskError, match="between 1 and 4"):
        state_derivatives(Recurrent("tanh", 2, 3, 2), torch.zeros(1, 4, 2), [5])


def test_long_products_do_not_underflow():
    torch.manual_seed(0)
    found = state_derivatives(Recurrent("tanh", 2, 4, 2), torch.randn(1, 2000, 2), [2000])
    assert -5000 < float(found[0, 0]) < -745  # below the logarithm of the smallest float64
