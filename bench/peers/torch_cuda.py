# PyTorch on a CUDA device, as `gyre train --device cuda` would train the same model: one process,
# data resident on the device, every step the next batch of it. tests/gpu/run calls it where torch
# sees a device.
#
#     torch_cuda.py --model mlp|wide|convnet --mode eager|compile|graphs --batch 100 --samples 60000
#
# mlp is 784-500-10 in f32; wide is eight layers of --wide in bf16; convnet is `gyre train`'s, on
# images of 8 x 8. "graphs" replays a captured step. Prints "steps/s, samples/s, loss".
import argparse
import time

import torch
import torch.nn as nn

WARM_UPS = 10
SECONDS = 10


def make_model(options):
    if options.model == "convnet":
        side, layers = 8, []
        for inputs, outputs in ((1, 16), (16, 32)):
            layers += [nn.Conv2d(inputs, outputs, 5, padding=2), nn.BatchNorm2d(outputs),
                       nn.ReLU(), nn.MaxPool2d(2)]
        model = nn.Sequential(*layers, nn.Flatten(), nn.Linear((side // 4) ** 2 * 32, 10))
        return model, (1, side, side)
    sizes = [784, 500, 10] if options.model == "mlp" else [options.wide] * 8 + [10]
    layers = []
    for i in range(len(sizes) - 1):
        layers += [nn.Linear(sizes[i], sizes[i + 1]), nn.ReLU()]
    return nn.Sequential(*layers[:-1]), (sizes[0],)


def make_step(options):
    model, shape = make_model(options)
    model = model.cuda()
    half = options.model == "wide"
    x = torch.rand(options.samples, *shape, device="cuda")
    y = torch.randint(0, 10, (options.samples,), device="cuda")
    find_loss = nn.CrossEntropyLoss()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)

    def compute(rows, labels):
        optimizer.zero_grad(set_to_none=False)
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=half):
            loss = find_loss(model(rows), labels)
        loss.backward()
        optimizer.step()
        return loss

    if options.mode == "compile":
        compute = torch.compile(compute, mode="reduce-overhead")
    return compute, x, y


def capture(compute, rows, labels):
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            compute(rows, labels)
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        loss = compute(rows, labels)
    return graph, loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--model", choices=["mlp", "wide", "convnet"], required=True)
    parser.add_argument("--mode", choices=["eager", "compile", "graphs"], required=True)
    parser.add_argument("--batch", type=int, required=True)
    parser.add_argument("--samples", type=int, required=True)
    parser.add_argument("--wide", type=int, default=4096)
    options = parser.parse_args()
    compute, x, y = make_step(options)
    batches = options.samples // options.batch
    rows, labels = x[: options.batch].clone(), y[: options.batch].clone()
    graph = capture(compute, rows, labels) if options.mode == "graphs" else None

    def step(number):
        first = number % batches * options.batch
        rows.copy_(x[first : first + options.batch])
        labels.copy_(y[first : first + options.batch])
        if graph:
            graph[0].replay()
            return graph[1]
        return compute(rows, labels)

    for number in range(WARM_UPS):
        loss = step(number)
    torch.cuda.synchronize()
    begun, steps = time.monotonic(), 0
    while time.monotonic() - begun < SECONDS:
        for _ in range(20):
            loss = step(steps)
            steps += 1
        torch.cuda.synchronize()
    rate = steps / (time.monotonic() - begun)
    print("%.6g steps/s, %.6g samples/s, loss %.4f" % (rate, rate * options.batch, float(loss)))


main()
