"""Inference through four stages: the head reads the table that the embedding returns; a loop cuts the batch."""

import numpy as np

import mindspore as ms
from mindspore import Parameter, Tensor, lazy_inline, nn, ops, sync_pipeline_shared_parameters
from mindspore.communication import init

stages = min(4, ms.get_auto_parallel_context("device_num"))
ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, dataset_strategy="full_batch",
                             pipeline_stages=stages, pipeline_result_broadcast=True)
init()
ms.set_seed(1)


class VocabEmbedding(nn.Cell):
    def __init__(self, vocab_size, embedding_size):
        super().__init__()
        table = np.arange(vocab_size * embedding_size).reshape(vocab_size, embedding_size) % 5
        self.embedding_table = Parameter(Tensor(table, ms.float32), name="embedding_table")
        self.gather = ops.Gather()

    def construct(self, x):
        return self.gather(self.embedding_table, x, 0).squeeze(1), self.embedding_table.value()


class Head(nn.Cell):
    def __init__(self):
        super().__init__()
        self.matmul = ops.MatMul(transpose_b=True)

    def construct(self, state, embed):
        return self.matmul(state, embed)


class Network(nn.Cell):
    @lazy_inline
    def __init__(self):
        super().__init__()
        self.word_embedding = VocabEmbedding(vocab_size=32, embedding_size=16)
        self.layer1 = nn.Dense(16, 16, weight_init="ones", bias_init="zeros")
        self.layer2 = nn.Dense(16, 16, weight_init="ones", bias_init="ones")
        self.head = Head()

    def construct(self, x):
        x, embed = self.word_embedding(x)
        return self.head(self.layer2(self.layer1(x)), embed)


class PipelineCellInference(nn.Cell):
    def __init__(self, network, micro_batch_num):
        super().__init__()
        self.network = network
        self.micro_batch_num = micro_batch_num
        self.concat = ops.Concat()

    def construct(self, x):
        ret = ()
        size = x.shape[0] // self.micro_batch_num
        for i in range(self.micro_batch_num):
            ret = ret + (self.network(x[size * i:size * (i + 1)]),)
        return self.concat(ret)


net = Network()
net.word_embedding.pipeline_stage = 0
net.layer1.pipeline_stage = min(1, stages - 1)
net.layer2.pipeline_stage = min(2, stages - 1)
net.head.pipeline_stage = stages - 1
inference_network = PipelineCellInference(network=net, micro_batch_num=4)
inference_network.set_train(False)
input_ids = Tensor(np.random.randint(low=0, high=32, size=(8, 1)), ms.int32)
inference_network.compile(input_ids)
sync_pipeline_shared_parameters(inference_network)
logits = inference_network(input_ids).asnumpy()
hidden = net.word_embedding.embedding_table.asnumpy()
states = hidden[input_ids.asnumpy()[:, 0]].sum(1, keepdims=True) * 16 + 1
print(logits.tolist() == (states @ hidden.sum(1, keepdims=True).T).tolist())
print(logits)
